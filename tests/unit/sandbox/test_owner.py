from sandlot.sandbox.owner import is_gone, new_labels, started


def test_our_own_process_is_not_gone():
    assert not is_gone(new_labels())


def test_every_opening_has_a_name_of_its_own():
    assert new_labels()["sandlot.run"] != new_labels()["sandlot.run"]


def test_a_number_given_out_again_is_another_process():
    assert is_gone(new_labels() | {"sandlot.started": "1"})


def test_a_process_of_an_earlier_boot_is_gone():
    assert is_gone(new_labels() | {"sandlot.boot": "earlier"})


def test_a_process_that_cannot_be_seen_from_here_is_let_be():
    assert not is_gone(new_labels() | {"sandlot.started": "1", "sandlot.pid_namespace": "pid:[1]"})


def test_labels_that_are_not_ours_belong_to_nobody_we_know():
    assert not is_gone({})
    assert not is_gone({"sandlot.run": "x", "sandlot.pid": "-1"})
    assert not is_gone({"sandlot.pid": "12"})


def test_a_process_that_is_not_there_never_started(tmp_path):
    assert started(tmp_path, 1) == ""

from sandlot.sandbox.owner import owner_is_dead, owner_labels, start_ticks


def test_our_own_process_is_not_gone():
    assert not owner_is_dead(owner_labels())


def test_every_opening_has_a_name_of_its_own():
    assert owner_labels()["sandlot.run"] != owner_labels()["sandlot.run"]


def test_a_number_given_out_again_is_another_process():
    assert owner_is_dead(owner_labels() | {"sandlot.started": "1"})


def test_a_process_of_an_earlier_boot_is_gone():
    assert owner_is_dead(owner_labels() | {"sandlot.boot": "earlier"})


def test_a_process_that_cannot_be_seen_from_here_is_let_be():
    assert not owner_is_dead(owner_labels() | {"sandlot.started": "1", "sandlot.pid_namespace": "pid:[1]"})


def test_foreign_labels_have_no_dead_owner():
    assert not owner_is_dead({})
    assert not owner_is_dead({"sandlot.run": "x", "sandlot.pid": "-1"})
    assert not owner_is_dead({"sandlot.pid": "12"})


def test_a_process_that_is_not_there_never_started(tmp_path):
    assert start_ticks(tmp_path, 1) == ""

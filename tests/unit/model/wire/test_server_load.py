"""How busy a model's servers are, from the text that each kind of server writes."""

from hypothesis import given
from hypothesis import strategies as st

from sandlot.model.wire.server_load import ServerLoad, add_loads, load_of, parse_load

VLLM = """# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="1",model_name="m"} 4.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
vllm:cache_config_info{block_size="16",cache_dtype="auto",num_gpu_blocks="1000"} 1.0
"""
SGLANG = """sglang:num_queue_reqs{model_name="m"} 2.0
sglang:token_usage{model_name="m"} 0.75
sglang:max_total_num_tokens{model_name="m"} 4096.0
"""
OWN = "sandlot_engine_kv_blocks 100\nsandlot_engine_kv_blocks_running 40\nsandlot_engine_waiting 5\n"


def test_each_kind_of_server_is_read():
    assert parse_load(VLLM, "vllm") == ServerLoad(queued=7, cache_used=0.5, cache_tokens=16_000)
    assert parse_load(SGLANG, "sglang") == ServerLoad(queued=2, cache_used=0.75, cache_tokens=4096)
    assert parse_load(OWN, "sandlot", 800) == ServerLoad(queued=5, cache_used=0.4, cache_tokens=800)


def test_a_plug_in_s_own_way_to_load_something_is_not_called():
    class Plugin:
        def load(self) -> None:
            raise AssertionError("this loads the model")

    assert load_of(Plugin()) is None


def test_an_older_name_is_known_too():
    assert parse_load('vllm:gpu_cache_usage_perc{model_name="m"} 0.125\n', "vllm").cache_used == 0.125


PIECES = ["vllm:num_requests_waiting", "{", "}", '"', " ", "NaN", "-1", "1e999", "\n"]


@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join))
def test_nothing_that_a_server_writes_breaks_it(text):
    for dialect in ("vllm", "sglang", "sandlot"):
        found = parse_load(text, dialect)
        assert found.queued is None or found.queued >= 0


def test_what_one_server_does_not_say_is_not_known_of_all():
    one, other = ServerLoad(queued=1, cache_used=0.5, cache_tokens=10), ServerLoad(queued=2, cache_used=0.75)
    assert add_loads([one, other]) == ServerLoad(queued=3, cache_used=0.75)
    assert add_loads([one, one]) == ServerLoad(queued=2, cache_used=0.5, cache_tokens=20)
    assert add_loads([]) == ServerLoad()

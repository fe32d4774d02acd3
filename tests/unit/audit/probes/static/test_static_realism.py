"""Synthetic data compared with real data."""

import csv
import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.static_cases import case_of, found
from sandlot.audit.finding import Confidence, Severity
from sandlot.audit.probes.static import realism, records
from sandlot.core.errors import ConfigError
from sandlot.core.task import Task


def row(rng: Random, **changes) -> dict:
    made = {
        "cents": int(rng.lognormvariate(7, 1)),
        "state": rng.choice(["paid"] * 8 + ["open"] * 2),
        "note": " ".join(rng.choice(("call", "later", "über", "paid", "twice")) for _ in range(rng.randrange(1, 9))),
        "phone": None if rng.random() < 0.3 else str(rng.randrange(10**9)),
    }
    return {name: change(rng) if (change := changes.get(name)) else value for name, value in made.items()}


def tasks_of(**changes) -> tuple[Task, ...]:
    rng = Random(1)
    return tuple(Task(f"t{at}", data={"inner": {"orders": [row(rng, **changes) for _ in range(40)]}}) for at in range(10))


def sample_in(tmp_path, name: str = "real.jsonl"):
    rng, place = Random(2), tmp_path / name
    rows = [row(rng) for _ in range(400)]
    if name.endswith(".csv"):
        with place.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    elif name.endswith(".parquet"):
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist(rows), place)
    else:
        place.write_text("\n".join(json.dumps(each) for each in rows))
    return place


@pytest.mark.parametrize("name", ["real.jsonl", "real.csv", "real.parquet"])
async def test_data_drawn_like_the_real_data_is_fine(tmp_path, name):
    assert await found(realism.PROBE, case_of(tasks=tasks_of(), reference=sample_in(tmp_path, name))) == []


@pytest.mark.parametrize(
    ("field", "change", "code"),
    [
        ("cents", lambda rng: rng.randrange(1000, 1200), "D07.numbers"),
        ("state", lambda rng: rng.choice(["paid", "open", "lost"]), "D07.categories"),
        ("phone", lambda rng: str(rng.randrange(10**9)), "D07.missing"),
        ("note", lambda rng: "Good client, number " + str(rng.randrange(1000)), "D07.words"),
    ],
)
async def test_a_field_unlike_the_real_data_is_confirmed(tmp_path, field, change, code):
    (finding,) = await found(realism.PROBE, case_of(tasks=tasks_of(**{field: change}), reference=sample_in(tmp_path)))
    assert (finding.code, finding.standing, finding.severity) == (code, Confidence.CONFIRMED, Severity.HIGH)
    assert finding.where == f"inner.orders.{field}"
    assert finding.witness is not None
    assert finding.witness.inputs["records"] == {"here": 400, "tasks": 10, "real": 400}


async def test_values_that_are_equal_within_a_task_count_once_per_task(tmp_path):
    """Ten tasks with one level each are ten samples, however many records they have."""
    rng = Random(4)
    place = tmp_path / "real.jsonl"
    place.write_text("\n".join(json.dumps({"level": rng.gauss(0, 100), "unit": "m"}) for _ in range(300)))
    tasks = []
    for at in range(10):
        level = rng.gauss(0, 100)
        tasks.append(Task(f"t{at}", data={"rows": [{"level": level + rng.random(), "unit": "m"} for _ in range(100)]}))
    assert await found(realism.PROBE, case_of(tasks=tuple(tasks), reference=place)) == []


async def test_a_sample_with_other_fields_is_reported(tmp_path):
    place = tmp_path / "real.jsonl"
    place.write_text('{"other": 1}\n')
    (finding,) = await found(realism.PROBE, case_of(tasks=tasks_of(), reference=place))
    assert (finding.code, finding.severity) == ("D07.unmatched", Severity.INFO)


async def test_without_a_sample_clean_data_is_only_mentioned():
    rows = [{"id": at, "name": "John Doe"} for at in range(60)]
    (finding,) = await found(realism.PROBE, case_of(tasks=(Task("t", data={"people": rows}),)))
    assert (finding.code, finding.severity, finding.standing) == ("D07.clean", Severity.INFO, Confidence.LEAD)


@pytest.mark.parametrize(
    ("name", "text"), [("a.jsonl", "{"), ("a.jsonl", ""), ("a.jsonl", "3"), ("a.txt", "x"), ("a.parquet", "x"), ("a.jsonl", None)]
)
async def test_an_invalid_sample_is_a_config_error(tmp_path, name, text):
    place = tmp_path / name
    if text is not None:
        place.write_text(text)
    with pytest.raises(ConfigError, match="reference"):
        await found(realism.PROBE, case_of(tasks=tasks_of(), reference=place))


def test_records_are_found_by_their_fields():
    data = {"a": {"x": {"id": 1, "v": 2}, "y": {"id": 2, "v": 3}}, "b": [{"id": 1, "w": 1}] * 3, "c": [1, 2], "d": [{"id": 1}]}
    pools = {pool.place: pool for pool in records.pools_of([Task("t", data=data)])}
    assert set(pools) == {"a", "b"}
    assert records.matching_pool(list(pools.values()), [{"id": 1, "w": 2}], "real") is pools["b"]
    assert records.matching_pool(list(pools.values()), [{"z": 1}], "real") is None


@given(st.lists(st.lists(st.floats(-100, 100), min_size=2, max_size=5), min_size=2, max_size=5))
def test_intraclass_correlation_is_between_0_and_1(groups):
    assert 0 <= realism.intraclass(groups) <= 1


def test_intraclass_correlation_reaches_0_and_1():
    assert realism.intraclass([[1.0, 1.0, 1.0], [5.0, 5.0, 5.0]]) == 1
    assert realism.intraclass([[1.0, 5.0, 9.0], [1.0, 5.0, 9.0]]) == 0


def test_a_large_difference_in_few_rows_is_chance():
    here, real = [{"v": float(at)} for at in range(10)], [{"v": float(at) + 100} for at in range(10)]
    assert realism.significant_differences(list(realism.compare_field("v", here, real))) == {}

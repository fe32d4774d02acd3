from sandlot import Evidence, Task


def written(evidence: Evidence, task: Task) -> bool:
    return evidence.exists("/out/sum.txt")


def right(evidence: Evidence, task: Task) -> tuple[bool, str]:
    found = evidence.read_text("/out/sum.txt").strip()
    return found == str(task.key["sum"]), found

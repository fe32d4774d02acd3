"""HumanEval: functions to complete, with tests."""

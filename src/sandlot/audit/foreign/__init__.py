"""Subjects that are not Sandlot environments: plain graders and Gymnasium environments."""

"""Small changes of the author's files that remove a confirmed defect, each tested before it is proposed."""

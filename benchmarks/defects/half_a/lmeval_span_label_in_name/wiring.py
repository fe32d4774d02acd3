from standins import load, stand_in

stand_in("lm_eval.api.filter", Filter=object)
stand_in("lm_eval.api.registry", register_filter=lambda name: lambda cls: cls)
FILTER = load("lm_eval/filters/transformation.py", "lm_eval.filters.transformation").SPANFilter()


def spans(text):
    return {" ".join(each.split()) for each in text.lower().split("$") if each.strip()}


def grade(answer, row):
    found, wanted = spans(FILTER.apply([[answer]], [row])[0][0]), spans(row["golden"])
    common = len(found & wanted)
    return 2 * common / (len(found) + len(wanted)) if found and wanted else 0.0

from hypothesis import settings

settings.register_profile("no wall clock", deadline=None)
settings.load_profile("no wall clock")

import pytest


@pytest.fixture(scope="session", autouse=True)
def language_is_patched_once_a_kernel():
    """Triton's interpreter looks through its whole language at every call inside a kernel, though it is patched by then."""
    from triton import language
    from triton.runtime import interpreter

    patch_language = interpreter._patch_lang

    def patch_once(function):
        languages = [each for each in (language, language.core) if each in function.__globals__.values()]
        if languages and not any(language.core.is_builtin(each.load) for each in languages):
            return interpreter._LangPatchScope()
        return patch_language(function)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang", patch_once)
        yield

"""`sandlot pack` and `sandlot unpack`: an environment as one file, and back."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Env, Json, Runs, app, authors_on_stderr, print_json

NAMES = ("pack", "unpack")
_Option = typer.Option


@app.command("pack")
def _pack(
    env: Env,
    out: Annotated[Path | None, _Option("--out", metavar="FILE", help="The file to write. [default: NAME.sandlot]")] = None,
    calibration: Annotated[
        Path | None, _Option("--calibration", metavar="FILE", help="What `sandlot calibrate --json` printed, to include.")
    ] = None,
    wheel: Annotated[
        bool, _Option("--wheel", help="Write a Python package instead, which registers the environment by its name.")
    ] = False,
    version: Annotated[str, _Option("--version", help="Version of the package, with --wheel.")] = "1.0.0",
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Pack an environment into one file: its files, its image's recipe, its card, its audit, and a manifest of hashes.

    The same environment gives the same bytes. An audit is included if it is of exactly these files. A file that holds a key is
    refused. With `--wheel`, `--out` is a folder.
    """
    from sandlot.env.load import load  # noqa: PLC0415 - help does not need it
    from sandlot.interop.bundles.pack import pack_environment  # noqa: PLC0415 - as above
    from sandlot.interop.bundles.wheel import write_wheel  # noqa: PLC0415 - as above

    if wheel:
        with authors_on_stderr():
            path = write_wheel(env, out or Path(), version=version)
        return print_json({"file": str(path)}) if json else print(path)
    with authors_on_stderr():
        packed = pack_environment(env, out or Path(f"{load(env).name}.sandlot"), runs=runs, calibration=calibration)
    if json:
        return print_json(packed)
    audit = packed.manifest.audit or "none of exactly these files; run `sandlot audit` first to include one"
    print(f"{packed.file}  {packed.bytes:,} bytes, {len(packed.manifest.files)} files\nsha256  {packed.sha256}\naudit   {audit}")
    return None


@app.command("unpack")
def _unpack(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A bundle that `sandlot pack` wrote.")],
    out: Annotated[
        Path | None, _Option("--out", metavar="FOLDER", help="The folder to write. [default: environments/NAME]")
    ] = None,
    sha256: Annotated[str | None, _Option("--sha256", metavar="HASH", help="Refuse a file with another hash.")] = None,
    json: Json = False,
) -> None:
    """Check a bundle and write its environment as a folder. Nothing of it is loaded or run.

    The card, the audit and the manifest go into its folder `docs/bundle`. Read the code before you run it: it runs on this
    machine.
    """
    from sandlot.interop.bundles.unpack import unpack_bundle  # noqa: PLC0415 - help does not need it

    folder = out or Path("environments") / file.stem
    manifest = unpack_bundle(file, folder, sha256=sha256)
    if json:
        return print_json({"folder": str(folder), "manifest": manifest})
    print(f"{folder}  {len(manifest.files)} files, audit: {manifest.audit or 'none'}")
    typer.echo(f"\nIts card is {folder}/docs/bundle/CARD.md. Read its code before you run it: it runs on this machine.", err=True)
    return None

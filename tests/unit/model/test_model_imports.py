import subprocess
import sys


def test_only_the_network_model_pays_for_the_network_library():
    parts = [f"policy.{name}" for name in ("solution", "replay", "scripted", "chat")] + ["endpoint.spend", "wire.text_calls"]
    code = f"import sys, {', '.join(f'sandlot.model.{part}' for part in parts)}; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

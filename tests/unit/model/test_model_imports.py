import subprocess
import sys


def test_only_the_network_model_pays_for_the_network_library():
    parts = ["model.agent", "model.replay", "model.scripted", "model.spend", "model.spoken", "calls.text"]
    code = f"import sys, {', '.join(f'sandlot.{part}' for part in parts)}; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

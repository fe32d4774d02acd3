async def setup(world, task):
    await world.write("/data/numbers.txt", "\n".join(map(str, task.data["numbers"])) + "\n")
    await world.exec("printf '#!/bin/sh\ncat /data/numbers.txt\n' > /data/show.sh && chmod 755 /data/show.sh")

async def solve(agent, task):
    await agent.call("bash", command="mkdir -p /out && /data/show.sh | awk '{s+=$1} END {print s}' > /out/sum.txt")
    await agent.say("done")

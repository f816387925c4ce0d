import time
from tests.integration.agent.conftest import *
from tests.integration.agent.test_waiting import *
async def test_time(world):
    world.model._script=[say("Hello")]
    pool=await pool_of(world); agent=await pool.start(); hello=pool.hellos[-1]
    t0=time.time(); update=await world.send("hello"); t1=time.time()
    ident=pool.identity(hello); t1b=time.time()
    await pool.hand_over(ident, hello.seal_key); t2=time.time()
    await until(lambda: len(pool.hellos)>1 and pool.hellos[-1].accepted, "a"); t3=time.time()
    await until(lambda: AgentState.READY in world.store.states(), "r"); t4=time.time()
    await until(lambda: bool(world.deltas), "d"); t5=time.time()
    print("TIMES", [round((b-a)*1000,1) for a,b in ((t0,t1),(t1,t1b),(t1b,t2),(t2,t3),(t3,t4),(t4,t5))])
    print([l for l in agent.lines if 'ready' in l])

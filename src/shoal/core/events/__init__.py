"""What can happen to a worker (past tense) and what it may be told to do (imperative).

`WorkerCore.handle(event, now)` returns instructions; the shell performs them and reports back
with further events. Times are seconds on the shell's monotonic clock.
"""

from shoal.core.events.lanes import (
    AskProcessor,
    AskStats,
    BatchFailed,
    End,
    Finished,
    KillRuntime,
    ProcessorSeen,
    Progressed,
    Run,
    RuntimeDied,
    RuntimeStarted,
    RuntimeStopped,
    StartRuntime,
    StatsSeen,
    StopRuntime,
)
from shoal.core.events.models import (
    Evict,
    Evicted,
    Fetch,
    Fetched,
    FetchFailed,
    FilesChanged,
    Load,
    Loaded,
    LoadFailed,
)
from shoal.core.events.pool import (
    Claim,
    Claimed,
    ClaimRefused,
    DemandSeen,
    Group,
    PeerLost,
    PeerModel,
    PeerPulled,
    PeerSeen,
    TellPulled,
    Unclaim,
)
from shoal.core.events.pulls import Arrived, Pull, PullEnded, Withdraw
from shoal.core.events.units import (
    Cancelled,
    Fail,
    FailItem,
    Forget,
    Item,
    Prepare,
    Prepared,
    Reply,
    Return,
    SetAside,
    Settled,
    Terminate,
    Unheard,
    UnitHead,
    features_of_items,
)
from shoal.core.events.worker import BrokerBack, BrokerLost, DrainBegan, Ticked

Event = (
    Arrived
    | Prepared
    | Finished
    | Progressed
    | Settled
    | PullEnded
    | Ticked
    | Unheard
    | Cancelled
    | DemandSeen
    | BatchFailed
    | Fetched
    | FetchFailed
    | FilesChanged
    | Loaded
    | LoadFailed
    | Evicted
    | StatsSeen
    | ProcessorSeen
    | PeerSeen
    | PeerPulled
    | PeerLost
    | Claimed
    | ClaimRefused
    | RuntimeStarted
    | RuntimeDied
    | RuntimeStopped
    | BrokerLost
    | BrokerBack
    | DrainBegan
)

Instruction = (
    Pull
    | Withdraw
    | TellPulled
    | Prepare
    | Run
    | End
    | StartRuntime
    | KillRuntime
    | StopRuntime
    | AskStats
    | AskProcessor
    | Fetch
    | Load
    | Evict
    | Claim
    | Unclaim
    | FailItem
    | Reply
    | Fail
    | SetAside
    | Return
    | Terminate
    | Forget
)

__all__ = [
    "Arrived",
    "AskProcessor",
    "AskStats",
    "BatchFailed",
    "BrokerBack",
    "BrokerLost",
    "Cancelled",
    "Claim",
    "ClaimRefused",
    "Claimed",
    "DemandSeen",
    "DrainBegan",
    "End",
    "Event",
    "Evict",
    "Evicted",
    "Fail",
    "FailItem",
    "Fetch",
    "FetchFailed",
    "Fetched",
    "FilesChanged",
    "Finished",
    "Forget",
    "Group",
    "Instruction",
    "Item",
    "KillRuntime",
    "Load",
    "LoadFailed",
    "Loaded",
    "PeerLost",
    "PeerModel",
    "PeerPulled",
    "PeerSeen",
    "Prepare",
    "Prepared",
    "ProcessorSeen",
    "Progressed",
    "Pull",
    "PullEnded",
    "Reply",
    "Return",
    "Run",
    "RuntimeDied",
    "RuntimeStarted",
    "RuntimeStopped",
    "SetAside",
    "Settled",
    "StartRuntime",
    "StatsSeen",
    "StopRuntime",
    "TellPulled",
    "Terminate",
    "Ticked",
    "Unclaim",
    "Unheard",
    "UnitHead",
    "Withdraw",
    "features_of_items",
]

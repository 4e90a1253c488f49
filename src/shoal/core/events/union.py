"""Any event, any instruction."""

from shoal.core.events.lanes import (
    AskStats,
    BatchFailed,
    Finished,
    KillRuntime,
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
    Load,
    Loaded,
    LoadFailed,
)
from shoal.core.events.pool import (
    Claim,
    Claimed,
    ClaimRefused,
    DemandSeen,
    PeerLost,
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
    Prepare,
    Prepared,
    Reply,
    Return,
    SetAside,
    Settled,
    Terminate,
    Unheard,
)
from shoal.core.events.worker import BrokerBack, BrokerLost, DrainBegan, Ticked

Event = (
    Arrived
    | Prepared
    | Finished
    | Settled
    | PullEnded
    | Ticked
    | Unheard
    | Cancelled
    | DemandSeen
    | BatchFailed
    | Fetched
    | FetchFailed
    | Loaded
    | LoadFailed
    | Evicted
    | StatsSeen
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
    | StartRuntime
    | KillRuntime
    | StopRuntime
    | AskStats
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

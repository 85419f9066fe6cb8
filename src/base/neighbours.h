// Other processes on the same processors.
#pragma once

namespace varve {

// Called before a program runs. A few times a second it looks whether others want the processors; while they do,
// threads of ours that wait for work sleep instead of spinning. Where OMP_WAIT_POLICY, GOMP_SPINCOUNT or KMP_BLOCKTIME
// says how threads wait, that stands.
void share_processors();

// How busy the processors were over a while, in processors.
struct Busy {
  double others = 0, idle = 0;
};
bool wants_sleep(const Busy& busy, bool asleep);  // asleep: what holds now, so that it does not change at every look

}  // namespace varve

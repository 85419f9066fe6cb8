// How many threads the system lets this process start.
#pragma once

namespace varve {

// `wanted`, the calling thread included, or fewer: OpenMP ends the process when it cannot start a thread, so a team is
// tried out first with threads that do nothing. Where they do not all start, half of them are left to others.
int startable_threads(int wanted);

}  // namespace varve

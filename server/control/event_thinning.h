// Private to server/control: which events of a job go as new ones come, so that
// a job that runs for weeks does not fill the disk with its steps.
//
// The newest kEventsKept are all there; of those before them about half, of
// twice as many before those a quarter, and so on. Of a million events some
// 20,000 stay, the older the thinner.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "server/store/events_kept.h"

namespace gpupool::server {

// Sequences of a job's events that go when the event `newest` comes; about one
// on average.
std::vector<uint64_t> EventsToDrop(uint64_t newest);

}  // namespace gpupool::server

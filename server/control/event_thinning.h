// Private to server/control: chooses events of a job to drop as new ones come,
// so that a job that runs for weeks does not fill the disk with its steps.
//
// The newest kEventsKept stay. Of as many events before them about half stay,
// of twice as many before those a quarter, and so on. Of a million events some
// 20,000 stay.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "server/store/events_kept.h"

namespace gpupool::server {

// Returns the sequences of a job's events to drop when event `newest` comes;
// about one on average.
std::vector<uint64_t> EventsToDrop(uint64_t newest);

}  // namespace gpupool::server

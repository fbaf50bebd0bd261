// Voluntary context switches of processes, from /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace gpupool::benchmarks {

// Returns the voluntary context switches of all threads of a process and of its
// children, without theirs that have ended.
uint64_t VoluntarySwitches(pid_t pid);

}  // namespace gpupool::benchmarks

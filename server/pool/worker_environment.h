// Environment variables that workers get unless the daemon has them itself.
#pragma once

namespace gpupool::server {

// OpenMP threads of a worker spin 4000 times for work, a tenth of a
// millisecond, then sleep. OpenMP's default, some eight milliseconds, makes
// training ten times slower once anything else computes on these cores. With
// 500 spins the team falls asleep within a step, and each kernel that wakes it
// waits 25 to 50 microseconds.
//
//   milliseconds, 2 threads, 2 cores     looks: 500   2000   4000
//   mobilenet_v2, 1 image, cores free           8.8    5.3    4.1
//   encoder, 1 row, cores free                  7.3    5.1    4.6
//   step of a perceptron, cores free            0.39   0.20   0.18
//   step of a small CNN, one core taken        53     27     25
//   mobilenet_v2, one core taken                8.5   11.7   15.3
//   encoder, one core taken                     9.7   12.3   13.5
//
// Clients that load a served model on the same cores see no difference.
inline constexpr char kWaitPolicy[] = "OMP_WAIT_POLICY=passive";
inline constexpr char kSpinCount[] = "GOMP_SPINCOUNT=4000";

}  // namespace gpupool::server

// `gpupool-worker doctor`: what on this machine keeps gpupool from using its
// GPUs, and what to do about it. `gpupool doctor` shows it to people, and the
// daemon logs it.
#pragma once

namespace gpupool::server {

// The arguments of main, "doctor" being the first. Prints one line of JSON,
//   {"findings":[{"id":"driver.ok","severity":"ok","text":...,"remedy":""}]}
// Returns the exit code: 0, 1 when a finding is a failure, 2 for wrong
// arguments. To be called on the main thread, before any other exists.
int RunDoctorCommand(int argc, char** argv);

}  // namespace gpupool::server

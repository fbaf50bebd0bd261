// Implements `gpupool-worker doctor`, which lists what keeps gpupool from using
// this machine's GPUs, with remedies. `gpupool doctor` shows the list, and the
// daemon logs it.
#pragma once

namespace gpupool::server {

// Takes the arguments of main, of which "doctor" is the first. Prints one line
// of JSON,
//   {"findings":[{"id":"driver.ok","severity":"ok","text":...,"remedy":""}]}
// Returns the exit code: 0, 1 when a finding is a failure, 2 for wrong
// arguments. To be called on the main thread, before any other exists.
int RunDoctorCommand(int argc, char** argv);

}  // namespace gpupool::server

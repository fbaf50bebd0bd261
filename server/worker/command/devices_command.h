// Implements `gpupool-worker devices`, which lists the GPUs that workers on
// this machine can open. The daemon, which loads no driver, runs it.
#pragma once

namespace gpupool::server {

// Takes the arguments of main, of which "devices" is the first. Prints one line
// of JSON,
//   {"gpus":[{"device":"cuda:0","name":...,"usable_bytes":...,
//             "links":["","NVL",...],...}]}
// or, to standard error, why there are none. Returns the exit code: 0, 1 when
// the GPUs fail, 2 for wrong arguments, 4 when there are none.
int RunDevicesCommand(int argc, char** argv);

}  // namespace gpupool::server

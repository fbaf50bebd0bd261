// The configuration file of the daemon: YAML with the names of the settings
// (settings.h) as keys; '_' and '-' in them mean the same.
//
//   grpc-port: 8001
//   devices: [cuda:0, cuda:1, cpu:2]
//   tenants:
//     - {name: research, weight: 3, guaranteed: 4}
//   queues:
//     - name: short
//       order: las
//       preempts: yes
//       tenants: [shop, research.vision]
//
// Lists may also be written in the one-line form of the flags.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/config.h"

namespace gpupool::server {

// Applies the file to `config`. InvalidArgument names the file, the key, line
// and column, the value and what is allowed. NotFound for a file that cannot be
// read.
absl::Status ReadConfigFile(const std::string& path, Config* config);

}  // namespace gpupool::server

#include "client/server_defaults.h"

#include "absl/strings/str_cat.h"

namespace gpupool::client {

std::string DefaultServerAddress() {
  return absl::StrCat(kDefaultHost, ":", kDefaultGrpcPort);
}

std::string DefaultSocket() {
  return absl::StrCat(kDefaultStateDir, "/", kDefaultSocketName);
}

std::string DefaultPorts() {
  return absl::StrCat(kDefaultGrpcPort, ",", kDefaultHttpPort, ",",
                      kDefaultMetricsPort);
}

}  // namespace gpupool::client

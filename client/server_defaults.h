// The addresses and the folder of a server that runs with its default settings
// (server/settings.cc). A test compares the two.
#pragma once

#include <cstdint>
#include <string>

namespace gpupool::client {

inline constexpr uint16_t kDefaultGrpcPort = 8001;
inline constexpr uint16_t kDefaultHttpPort = 8000;
inline constexpr uint16_t kDefaultMetricsPort = 8002;
inline constexpr char kDefaultHost[] = "127.0.0.1";
inline constexpr char kDefaultStateDir[] = "gpupool-state";
inline constexpr char kDefaultSocketName[] = "gpupoold.sock";  // in that folder

// Returns "127.0.0.1:8001".
std::string DefaultServerAddress();
// Returns "gpupool-state/gpupoold.sock".
std::string DefaultSocket();
// Returns "8001,8000,8002": gRPC, HTTP and metrics.
std::string DefaultPorts();

}  // namespace gpupool::client

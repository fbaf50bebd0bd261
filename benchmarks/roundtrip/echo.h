// A bare gRPC server of the open inference protocol that answers each
// ModelInfer with as many bytes as the model would. Its cost is that of gRPC,
// the messages and the network.
#pragma once

#include <sys/types.h>

#include <string>

namespace gpupool::benchmarks {

// Serves on a free port of loopback, which it prints, until it is ended.
int RunEchoServer();

// A process of its own that runs RunEchoServer. The program must do that when
// its only argument is `--echo-server`.
class EchoProcess {
 public:
  // Forks, so the caller must not have threads yet.
  EchoProcess();
  ~EchoProcess();
  EchoProcess(const EchoProcess&) = delete;
  EchoProcess& operator=(const EchoProcess&) = delete;

  const std::string& address() const { return address_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  std::string address_;
};

}  // namespace gpupool::benchmarks

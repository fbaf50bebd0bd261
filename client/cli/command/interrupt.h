// Turns Ctrl-C and SIGTERM into a stop token, so that a command that follows a
// job can end cleanly. A second signal, or three seconds without an end, ends
// the process.
//
// Construct one at the start of main(). It blocks the two signals in this
// thread and, by inheritance, in every later thread.
#pragma once

#include <stop_token>
#include <thread>

namespace gpupool::client {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token stop() const { return source_.get_token(); }

 private:
  void Wait(std::stop_token ended);

  std::stop_source source_;
  std::jthread thread_;
};

}  // namespace gpupool::client

#include "client/cli/command/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace gpupool::client {
namespace {

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::jthread([this](std::stop_token ended) { Wait(ended); });
}

Interrupt::~Interrupt() = default;

void Interrupt::Wait(std::stop_token ended) {
  const sigset_t signals = Signals();
  constexpr timespec kTick{.tv_sec = 0, .tv_nsec = 50'000'000};
  constexpr int kGraceTicks = 60;
  int first_signal = 0;
  int ticks = 0;
  while (!ended.stop_requested()) {
    const int signal = sigtimedwait(&signals, nullptr, &kTick);
    if (first_signal != 0 && (signal > 0 || ++ticks > kGraceTicks)) {
      _exit(128 + first_signal);
    }
    if (signal > 0) {
      first_signal = signal;
      source_.request_stop();
    }
  }
}

}  // namespace gpupool::client

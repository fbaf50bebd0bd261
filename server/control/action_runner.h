// Performs the actions of the scheduler and decides nothing. Answers come back
// as events through the queue.
//
// Thread-safety: call Perform on the control thread, after the commit.
// Ownership: everything is borrowed and must outlive the runner's last answer.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "scheduler/step/action.h"
#include "scheduler/step/event.h"

namespace gpupool::v1 {
class Job;
}  // namespace gpupool::v1
namespace gpupool::worker::v1 {
class StartJob;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

class Ledger;
class ServingSink;
struct ControlContext;

class ActionRunner {
 public:
  // `serving` may be null: then nothing is served. `set_timer` must cause a
  // TimerFired.
  ActionRunner(const ControlContext& context, Ledger* ledger,
               ServingSink* serving, std::function<void(absl::Time)> set_timer);

  void Perform(const scheduler::Action& action);

 private:
  void Do(const scheduler::StartJob& action);
  void Do(const scheduler::StopJob& action);
  void Do(const scheduler::CreateVersion& action);
  void Do(const scheduler::LoadVersion& action);
  void Do(const scheduler::RehearseVersion& action);
  void Do(const scheduler::ServeVersion& action);
  void Do(const scheduler::DrainVersion& action);
  void Do(const scheduler::ForgetVersion& action);
  void Do(const scheduler::UnloadVersion& action);
  void Do(const scheduler::SetTimer& action);

  void Tell(scheduler::Event event);
  // Returns the message with which the worker runs this rank.
  absl::StatusOr<worker::v1::StartJob> StartOf(
      const scheduler::StartJob& action, const v1::Job& job) const;
  std::string NameOf(scheduler::DeviceId id) const;

  const ControlContext& context_;
  Ledger* ledger_;
  ServingSink* serving_;
  std::function<void(absl::Time)> set_timer_;
};

}  // namespace gpupool::server

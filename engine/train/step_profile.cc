#include "engine/train/step_profile.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// Returns the number of times that one step has.
uint64_t NodesPerStep(absl::Span<const StepProgram> programs) {
  uint64_t nodes = 0;
  for (const StepProgram& program : programs) {
    if (program.executor == nullptr) continue;
    const Program& compiled = program.executor->program();
    const uint64_t launches =
        compiled.launches().size() - compiled.load_launches();
    nodes += launches * program.runs_per_step;
  }
  return nodes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepProfile>> StepProfile::Create(
    uint32_t steps, const SteppedPrograms& stepped, LaunchTimer* timer) {
  const std::vector<StepProgram>& programs = stepped.programs;
  const uint64_t nodes = NodesPerStep(programs);
  if (steps > 1 && steps * nodes > kMostTracedNodes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a profile of ", steps, " ", programs.front().name, "s has ",
        steps * nodes, " times, since each of them runs ", nodes,
        " nodes; at most ", kMostTracedNodes, " are kept: ask for ",
        std::max<uint64_t>(kMostTracedNodes / nodes, 1), " ",
        programs.front().name, "s or fewer"));
  }
  // Tries the timer first: one that does not work must not fail a step of the
  // job.
  if (timer != nullptr) {
    RETURN_IF_ERROR(timer->Start());
    RETURN_IF_ERROR(timer->Stop().status());
  }
  auto profile = absl::WrapUnique(new StepProfile(stepped, timer));
  for (const StepProgram& program : programs) {
    if (program.executor == nullptr) continue;
    const auto runs = static_cast<int>(steps * program.runs_per_step);
    profile->programs_.push_back({program, Profile(runs)});
  }
  return profile;
}

absl::Status StepProfile::Run(Executor& executor) {
  const auto profiled = std::find_if(
      programs_.begin(), programs_.end(), [&](const Profiled& candidate) {
        return candidate.program.executor == &executor;
      });
  GPUPOOL_CHECK(profiled != programs_.end());
  return executor.RunProfiled(&profiled->profile, timer_);
}

std::string StepProfile::Trace() const {
  std::vector<ArenaUse> arenas;
  arenas.reserve(programs_.size());  // their addresses are used below
  std::vector<TracedProgram> traced;
  for (const Profiled& profiled : programs_) {
    const Program& program = profiled.program.executor->program();
    arenas.push_back(ArenaUseOf(program));
    traced.push_back({.name = profiled.program.name,
                      .graph = &program.graph(),
                      .profile = &profiled.profile,
                      .arena = &arenas.back(),
                      .arena_bytes = arena_bytes_,
                      .outside_bytes = outside_bytes_});
  }
  return ChromeTrace(traced);
}

}  // namespace gpupool::engine

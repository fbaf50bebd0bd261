#include "engine/passes/pipeline.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "engine/graph/verify.h"
#include "engine/passes/choose_layout.h"
#include "engine/passes/eliminate_dead.h"
#include "engine/passes/fold_batch_norm.h"
#include "engine/passes/fold_constants.h"
#include "engine/passes/fuse_epilogues.h"
#include "engine/passes/mark_aliases.h"
#include "engine/passes/merge_equal.h"
#include "engine/passes/schedule_updates.h"

namespace gpupool::engine {
namespace {

struct Pass {
  absl::string_view name;
  absl::Status (*run)(Graph&);
};

constexpr std::array kPasses = {
    Pass{"fold", FoldConstants},
    Pass{"cse", MergeEqualNodes},
    Pass{"fold_batch_norm", FoldBatchNorm},
    Pass{"fuse", FuseEpilogues},
    Pass{"layout", ChooseLayout},
    Pass{"dce", EliminateDeadNodes},
    Pass{"schedule", ScheduleUpdates},
    Pass{"alias", MarkAliases},
};

absl::Status CheckOffList(const std::vector<std::string>& off) {
  for (const std::string& name : off) {
    const auto names = PassNames();
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("no pass is named '", name, "'; there are ",
                       absl::StrJoin(names, ", ")));
    }
  }
  return absl::OkStatus();
}

absl::Status RunPass(const Pass& pass, Graph& graph) {
  absl::Status status = pass.run(graph);
  if (status.ok()) {
    graph.Compact();
    status = Verify(graph);
  }
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("pass '", pass.name,
                                                  "': ", status.message()));
}

}  // namespace

std::string PassReport::ToString() const {
  std::string text;
  for (const PassRecord& pass : passes) {
    absl::StrAppend(
        &text, pass.name, ": ",
        pass.skipped
            ? "off"
            : absl::StrCat(pass.nodes_before, " -> ", pass.nodes_after,
                           " nodes, ", absl::FormatDuration(pass.duration)),
        "\n");
  }
  return text;
}

std::vector<absl::string_view> PassNames() {
  std::vector<absl::string_view> names;
  for (const Pass& pass : kPasses) names.push_back(pass.name);
  return names;
}

absl::Status RunPasses(Graph& graph, const PassOptions& options,
                       PassReport* report) {
  RETURN_IF_ERROR(CheckOffList(options.off));
  RETURN_IF_ERROR(Verify(graph));
  for (const Pass& pass : kPasses) {
    PassRecord record{.name = std::string(pass.name),
                      .nodes_before = graph.nodes().size()};
    record.skipped = std::find(options.off.begin(), options.off.end(),
                               record.name) != options.off.end();
    const absl::Time begin = absl::Now();
    if (!record.skipped) RETURN_IF_ERROR(RunPass(pass, graph));
    record.duration = absl::Now() - begin;
    record.nodes_after = graph.nodes().size();
    if (report != nullptr) report->passes.push_back(std::move(record));
    if (options.observer) options.observer(pass.name, graph);
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine

#include "engine/passes/pipeline.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/graph/verify.h"
#include "engine/passes/formats/autocast.h"
#include "engine/passes/formats/choose_layout.h"
#include "engine/passes/formats/narrow_weights.h"
#include "engine/passes/fuse/fold_batch_norm.h"
#include "engine/passes/fuse/fuse_elementwise.h"
#include "engine/passes/fuse/fuse_epilogues.h"
#include "engine/passes/raise/quantise.h"
#include "engine/passes/raise/raise.h"
#include "engine/passes/rewrite/rewrite.h"
#include "engine/passes/schedule/hoist.h"
#include "engine/passes/schedule/mark_aliases.h"
#include "engine/passes/schedule/schedule.h"
#include "engine/passes/simplify/eliminate_dead.h"
#include "engine/passes/simplify/fold_constants.h"
#include "engine/passes/simplify/merge_equal.h"
#include "engine/passes/simplify/simplify.h"

namespace gpupool::engine {
namespace {

struct Pass {
  absl::string_view name;
  absl::string_view summary;
  absl::Status (*run)(Graph&, const PassOptions&);
};

// Adapts a pass without options.
template <absl::Status (*kRun)(Graph&)>
absl::Status Plain(Graph& graph, const PassOptions&) {
  return kRun(graph);
}

absl::Status RunRecompute(Graph& graph, const PassOptions& options) {
  return Recompute(graph, options.recompute);
}

// Runs autocast for inference only. A training step got its casts before it was
// differentiated.
absl::Status RunAutocast(Graph& graph, const PassOptions& options) {
  if (options.compute == DType::kFloat32 || HasUpdates(graph)) {
    return absl::OkStatus();
  }
  return Autocast(graph, options.compute);
}

absl::Status RunNarrow(Graph& graph, const PassOptions& options) {
  if (options.narrow.empty()) return absl::OkStatus();
  return NarrowWeights(graph, options.compute, options.narrow);
}

absl::Status RunQuantise(Graph& graph, const PassOptions& options) {
  return options.integer_products ? Quantise(graph) : absl::OkStatus();
}

// The order matters. Quantise matches what the importer makes. Simplify gives
// one form to what later passes match. Casts come before weights are narrowed
// and hoisted. Marks of aliases come last, because any rewrite invalidates
// them.
constexpr std::array kPasses = {
    Pass{
        "quantise",
        "inference: where integers are fast, quantised nets compute with codes",
        RunQuantise},
    Pass{"simplify", "transposes, reshapes, scales and biases find their place",
         Plain<Simplify>},
    Pass{"fold", "constant sub-graphs become constants", Plain<FoldConstants>},
    Pass{"cse", "equal nodes are computed once", Plain<MergeEqualNodes>},
    Pass{"raise",
         "decomposed activations, layer norm and attention become one node",
         Plain<Raise>},
    Pass{"fold_batch_norm",
         "inference: what follows a product channel by channel goes into its "
         "weights",
         Plain<FoldBatchNorm>},
    Pass{"autocast",
         "inference: with 16-bit precision, casts around and into products",
         RunAutocast},
    Pass{"narrow",
         "inference: weights that only casts to 16 bits read are stored in 16 "
         "bits",
         RunNarrow},
    Pass{"hoist",
         "inference: what depends on weights only runs when they are loaded",
         Plain<Hoist>},
    Pass{"fuse", "residuals and activations go into convolutions and products",
         Plain<FuseEpilogues>},
    Pass{"fuse_elementwise",
         "islands of elementwise nodes become one node each",
         Plain<FuseElementwise>},
    Pass{"layout", "channels-last for the regions around convolutions",
         Plain<ChooseLayout>},
    Pass{"dce", "nodes that nobody needs are dropped",
         Plain<EliminateDeadNodes>},
    Pass{"recompute",
         "training: chosen activations are computed again, not kept",
         RunRecompute},
    Pass{"schedule", "nodes stand in the order with the lowest peak",
         Plain<Schedule>},
    Pass{"alias", "views and in-place results need no bytes of their own",
         Plain<MarkAliases>},
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

absl::Status RunPass(const Pass& pass, Graph& graph,
                     const PassOptions& options) {
  absl::Status status = pass.run(graph, options);
  if (status.ok()) {
    // Passes leave unused values behind.
    graph.Compact();
    status = Verify(graph);
  }
  return AtPlace(absl::StrCat("pass '", pass.name, "'"), status);
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

absl::string_view PassSummary(absl::string_view name) {
  for (const Pass& pass : kPasses) {
    if (pass.name == name) return pass.summary;
  }
  return "";
}

absl::Status RunPasses(Graph& graph, const PassOptions& options,
                       PassReport* report) {
  RETURN_IF_ERROR(CheckOffList(options.off));
  // The passes rely on a sound graph and do not check it themselves.
  RETURN_IF_ERROR(Verify(graph));
  for (const Pass& pass : kPasses) {
    PassRecord record{.name = std::string(pass.name),
                      .nodes_before = graph.nodes().size()};
    record.skipped = std::find(options.off.begin(), options.off.end(),
                               record.name) != options.off.end();
    const absl::Time begin = absl::Now();
    if (!record.skipped) RETURN_IF_ERROR(RunPass(pass, graph, options));
    record.duration = absl::Now() - begin;
    record.nodes_after = graph.nodes().size();
    if (report != nullptr) report->passes.push_back(std::move(record));
    if (options.observer) options.observer(pass.name, graph);
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine

// gpupool devices memory, empty-cache, reset-peak, fraction, history, dump.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <map>
#include <memory>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/devices/memory_picture.h"
#include "client/cli/devices/memory_watch.h"
#include "client/cli/output/table.h"
#include "client/device_calls.h"
#include "client/files/partial_file.h"
#include "client/files/snapshot_segments.h"
#include "client/memory_file.h"
#include "client/text/counted.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

using Stub = v1::DeviceService::Stub;

struct MemoryOptions {
  std::string device;
  bool snapshot = false;
  bool all = false;
  bool watch = false;
  double interval_seconds = 1;
  double fraction = 1;
  std::string history;
  uint64_t max_entries = 0;
  std::string file;
  bool segments = false;
};

void PrintFigures(const Context& context, const v1::MemoryStats& stats) {
  Table table({{"FIGURE"}, {"VALUE", Table::kRight}});
  const std::map<std::string, uint64_t> sorted(stats.by_pytorch_name().begin(),
                                               stats.by_pytorch_name().end());
  for (const auto& [name, value] : sorted) {
    table.AddRow({name, absl::StrCat(value)});
  }
  table.Print(context.out(), context.headers());
}

// Prints a snapshot, or draws it.
int ShowSnapshot(Context& context, Client& client,
                 const MemoryOptions& options) {
  v1::GetMemorySnapshotRequest request;
  request.set_device(options.device);
  request.set_with_timeline(!options.file.empty());
  const auto snapshot = CallDevice(client, &Stub::GetMemorySnapshot, request);
  if (!snapshot.ok()) return context.Fail(snapshot.status());
  if (options.file.empty()) {
    // A snapshot is for programs, so it has no table.
    context.Print(*snapshot, [&] {
      *context.out().stream << MessageToJson(*snapshot, true);
    });
    return kOk;
  }
  const absl::Status written =
      WriteWholeFile(options.file, SnapshotPicture(*snapshot));
  if (!written.ok()) return context.Fail(written);
  context.Print(*snapshot, [&] {
    const auto segments = static_cast<uint64_t>(snapshot->segments_size());
    *context.out().stream << options.file << ": "
                          << Counted(segments, "segment") << " of "
                          << options.device << "\n";
  });
  return kOk;
}

int Memory(Context& context, const MemoryOptions& options) {
  if (!options.file.empty() && !options.snapshot) {
    return context.Fail(absl::InvalidArgumentError(
        "-O FILE writes a picture with --watch or --snapshot; add one of "
        "them"));
  }
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  if (options.snapshot) return ShowSnapshot(context, **client, options);
  if (context.options().output == OutputFormat::kTable && !options.all) {
    v1::GetMemorySummaryRequest request;
    request.set_device(options.device);
    const auto summary = CallDevice(**client, &Stub::GetMemorySummary, request);
    if (!summary.ok()) return context.Fail(summary.status());
    *context.out().stream << absl::StripSuffix(summary->text(), "\n") << "\n";
    return kOk;
  }
  v1::GetMemoryStatsRequest request;
  request.set_device(options.device);
  const auto stats = CallDevice(**client, &Stub::GetMemoryStats, request);
  if (!stats.ok()) return context.Fail(stats.status());
  context.Print(*stats, [&] { PrintFigures(context, *stats); });
  return kOk;
}

int EmptyCache(Context& context, const std::string& device) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::EmptyCacheRequest request;
  request.set_device(device);
  const auto answer = CallDevice(**client, &Stub::EmptyCache, request);
  if (!answer.ok()) return context.Fail(answer.status());
  context.Print(*answer, [&] {
    *context.out().stream << device << ": freed "
                          << FormatBytes(answer->freed_bytes()) << "\n";
  });
  return kOk;
}

int ResetPeak(Context& context, const std::string& device) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::ResetPeakRequest request;
  request.set_device(device);
  const auto stats = CallDevice(**client, &Stub::ResetPeak, request);
  if (!stats.ok()) return context.Fail(stats.status());
  context.Print(*stats, [&] {
    *context.out().stream << device << ": the peak is now "
                          << FormatBytes(stats->peak_allocated_bytes()) << "\n";
  });
  return kOk;
}

int SetFraction(Context& context, const MemoryOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::SetMemoryFractionRequest request;
  request.set_device(options.device);
  request.set_fraction(options.fraction);
  const auto stats = CallDevice(**client, &Stub::SetMemoryFraction, request);
  if (!stats.ok()) return context.Fail(stats.status());
  context.Print(*stats, [&] {
    *context.out().stream << options.device << ": at most "
                          << FormatBytes(stats->limit_bytes())
                          << " may be allocated\n";
  });
  return kOk;
}

int RecordHistory(Context& context, const MemoryOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::RecordMemoryHistoryRequest request;
  request.set_device(options.device);
  request.set_enabled(options.history == "on");
  request.set_max_entries(options.max_entries);
  // A repeated call would discard the history since the first call.
  const auto answer = CallDevice(**client, &Stub::RecordMemoryHistory, request,
                                 Connection::kOnce);
  if (!answer.ok()) return context.Fail(answer.status());
  context.Print(*answer, [&] {
    *context.out().stream << options.device << ": history is "
                          << options.history << "\n";
  });
  return kOk;
}

int Dump(Context& context, const MemoryOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::DumpMemoryRequest request;
  request.set_device(options.device);
  const auto dumped =
      DumpMemory(**client, request, options.file,
                 options.segments ? DumpForm::kSegments : DumpForm::kWhole);
  if (!dumped.ok()) return context.Fail(dumped.status());
  if (dumped->cut_after.has_value()) {
    context.Say(absl::StrCat("warning: the list of segments is cut at ",
                             FormatBytes(kMaxSegmentsBytes),
                             ": the file has the first ", *dumped->cut_after,
                             "; leave out --segments to get all of them"));
  }
  if (context.options().output == OutputFormat::kTable) {
    *context.out().stream << options.file << ": " << FormatBytes(dumped->bytes)
                          << "\n";
  }
  return kOk;
}

struct VerbText {
  std::string name;
  std::string description;
  std::string example;
};

CLI::App* AddDeviceVerb(CLI::App& devices, const VerbText& text,
                        MemoryOptions& options) {
  CLI::App* verb = AddVerb(devices, text.name, text.description, text.example);
  verb->add_option("DEVICE", options.device, "The device, for example cpu:0")
      ->required();
  return verb;
}

void AddTools(CLI::App& devices, Invocation& invocation,
              const std::shared_ptr<MemoryOptions>& options) {
  CLI::App* fraction =
      AddDeviceVerb(devices,
                    {"fraction",
                     "Limit the share of the device's memory that may be used, "
                     "until it is set again.",
                     "  gpupool devices fraction cpu:0 0.5"},
                    *options);
  fraction->add_option("FRACTION", options->fraction, "Above 0, at most 1")
      ->required();
  invocation.On(fraction,
                [options](Context& c) { return SetFraction(c, *options); });

  CLI::App* history = AddDeviceVerb(
      devices,
      {"history",
       "Turn the recording of the device's allocations and frees on or off.",
       "  gpupool devices history cpu:0 on --max-entries 10000"},
      *options);
  history->add_option("STATE", options->history, "on or off")
      ->required()
      ->check(CLI::IsMember({"on", "off"}));
  history
      ->add_option("--max-entries", options->max_entries,
                   "Number of events to keep; the oldest are dropped first "
                   "(default: 100000)")
      ->check(CLI::Range(1, 1'000'000));
  invocation.On(history,
                [options](Context& c) { return RecordHistory(c, *options); });

  CLI::App* dump = AddDeviceVerb(
      devices,
      {"dump",
       "Write the blocks and the history of a device's memory to "
       "a file for pytorch.org/memory_viz.",
       "  gpupool devices dump cpu:0 -O memory.pickle\n"
       "  gpupool devices dump cpu:0 --segments -O blocks.pickle"},
      *options);
  dump->add_option("-O,--file", options->file, "The file to write")->required();
  dump->add_flag("--segments", options->segments,
                 "Write the blocks only, in the form that `python3 -m "
                 "torch.cuda._memory_viz` of PyTorch 1 and 2 reads");
  invocation.On(dump, [options](Context& c) { return Dump(c, *options); });
}

}  // namespace

void AddDevicesMemory(CLI::App& devices, Invocation& invocation) {
  auto options = std::make_shared<MemoryOptions>();
  CLI::App* memory = AddDeviceVerb(
      devices,
      {"memory",
       "Show who holds the memory of a device: bytes by owner, statistics, "
       "limits.",
       "  gpupool devices memory cpu:0\n"
       "  gpupool devices memory cpu:0 --watch -O memory.svg\n"
       "  gpupool devices memory cpu:0 --snapshot > blocks.json\n"
       "  gpupool devices memory cpu:0 --snapshot -O blocks.svg"},
      *options);
  memory->add_flag("--snapshot", options->snapshot,
                   "Every segment and block with its owner, as JSON");
  memory->add_flag("--all", options->all, "All figures under PyTorch's names");
  CLI::Option* watch =
      memory
          ->add_flag("--watch", options->watch,
                     "Print a row whenever the memory has changed, until "
                     "Ctrl-C")
          ->excludes("--snapshot")
          ->excludes("--all");
  memory
      ->add_option("--interval", options->interval_seconds,
                   "Least seconds between rows with --watch (default: 1)")
      ->check(CLI::Range(0.1, 3600.0))
      ->type_name("SECONDS")
      ->needs(watch);
  memory
      ->add_option(
          "-O,--file", options->file,
          "Write a picture (SVG): of the bytes over time when --watch ends, "
          "or with --snapshot of segments, blocks and history")
      ->type_name("FILE");
  invocation.On(memory, [options](Context& c) {
    if (!options->watch) return Memory(c, *options);
    return WatchMemory(
        c, {options->device, options->interval_seconds, options->file});
  });
  invocation.On(
      AddDeviceVerb(
          devices,
          {"empty-cache", "Give cached, unused memory back to the system.",
           "  gpupool devices empty-cache cpu:0"},
          *options),
      [options](Context& c) { return EmptyCache(c, options->device); });
  invocation.On(
      AddDeviceVerb(
          devices,
          {"reset-peak", "Set the recorded peaks to the current values.",
           "  gpupool devices reset-peak cpu:0"},
          *options),
      [options](Context& c) { return ResetPeak(c, options->device); });
  AddTools(devices, invocation, options);
}

}  // namespace gpupool::client

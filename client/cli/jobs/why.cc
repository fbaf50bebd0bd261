// gpupool why: why a job waits, and what would let it start.
#include <CLI/App.hpp>
#include <memory>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/job_argument.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/job_view.h"
#include "client/cli/output/table.h"
#include "client/text/units.h"
#include "client/watch.h"

namespace gpupool::client {
namespace {

void PrintQueue(const v1::JobExplanation& why, std::ostream& out) {
  if (why.position() == 0) return;
  out << "place " << why.position() << " of the queue";
  if (why.ahead_size() > 0) {
    const bool all =
        static_cast<uint64_t>(why.ahead_size()) + 1 == why.position();
    out << ", behind " << (why.ahead_size() == 1 ? "job " : "jobs ")
        << absl::StrJoin(why.ahead(), ", ") << (all ? "" : ", ...");
  }
  out << "; needs " << FormatBytes(why.needed_bytes());
  if (why.needed_devices() > 1) {
    out << " on each of " << why.needed_devices() << " devices";
  }
  out << "\n";
}

void PrintDevices(const Context& context, const v1::JobExplanation& why) {
  Table table({{"DEVICE"},
               {"FREE", Table::kRight},
               {"LIMIT", Table::kRight},
               {"MISSING", Table::kRight},
               {"JOBS"},
               {"OBSTACLE"}});
  for (const auto& device : why.devices()) {
    table.AddRow(
        {device.name(), FormatBytes(device.free_bytes()),
         FormatBytes(device.limit_bytes()),
         device.missing_bytes() > 0 ? FormatBytes(device.missing_bytes()) : "",
         absl::StrJoin(device.job_ids(), ","), device.obstacle()});
  }
  *context.out().stream << "\n";
  table.Print(context.out(), context.headers());
}

void PrintRunning(const Context& context, const v1::JobExplanation& why) {
  Table table({{"JOB", Table::kRight},
               {"ENDS IN", Table::kRight},
               {"GIVES WAY"},
               {"REASON"}});
  for (const auto& running : why.running()) {
    table.AddRow({absl::StrCat(running.id()),
                  running.seconds_left() > 0
                      ? FormatSpan(absl::Seconds(running.seconds_left()))
                      : "",
                  running.gives_way() ? "yes" : "no", running.reason()});
  }
  *context.out().stream << "\n";
  table.Print(context.out(), context.headers());
}

void PrintWhy(const Context& context, const v1::Job& job,
              const v1::JobExplanation& why) {
  std::ostream& out = *context.out().stream;
  out << "job " << job.id() << " (" << job.spec().name() << ") is "
      << StateText(why.state());
  if (why.waits_for().empty()) {
    const std::string devices = job.devices_size() > 1
                                    ? absl::StrJoin(job.devices(), ", ")
                                    : job.device();
    out << (!IsFinal(why.state()) ? absl::StrCat(" on ", devices) : "")
        << " and waits for nothing\n";
    return;
  }
  out << ": " << why.waits_for() << "\n";
  PrintQueue(why, out);
  if (why.devices_size() > 0) PrintDevices(context, why);
  if (why.running_size() > 0) PrintRunning(context, why);
  if (why.changes_size() == 0) return;
  out << "\nwhat would change it:\n";
  for (const std::string& change : why.changes()) out << "  " << change << "\n";
}

// Returns the job. For an array, returns its last task that waits.
absl::StatusOr<v1::Job> FindWaiting(Client& client, const std::string& text) {
  absl::StatusOr<JobOrArray> found = FindJobOrArray(client, text);
  if (!found.ok()) return found.status();
  if (auto* job = std::get_if<v1::Job>(&*found)) return std::move(*job);
  const auto& array = std::get<v1::JobArray>(*found);
  v1::ListJobsRequest request;
  request.set_array_id(array.id());
  request.add_states(v1::QUEUED);
  request.add_states(v1::BACKING_OFF);
  request.set_page_size(1);
  absl::StatusOr<v1::ListJobsResponse> tasks = client.ListJobs(request);
  if (!tasks.ok()) return tasks.status();
  if (!tasks->jobs().empty()) return std::move(*tasks->mutable_jobs(0));
  return absl::FailedPreconditionError(
      absl::StrCat("no task of array ", array.id(), " waits"));
}

int Why(Context& context, const std::string& text) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<v1::Job> job = FindWaiting(**client, text);
  if (!job.ok()) return context.Fail(job.status());
  v1::ExplainJobRequest request;
  request.set_id(job->id());
  const auto why = (*client)->ExplainJob(request);
  if (!why.ok()) return context.Fail(why.status());
  context.Print(*why, [&] { PrintWhy(context, *job, *why); });
  return kOk;
}

}  // namespace

void AddWhy(CLI::App& app, Invocation& invocation) {
  auto job = std::make_shared<std::string>();
  CLI::App* verb = AddVerb(
      app, "why",
      "Show why a job waits and what would let it start: its place in the "
      "queue, what each device lacks, which running jobs can be preempted.",
      "  gpupool why 7\n  gpupool why digits -o json");
  verb->add_option("JOB", *job, kJobOrArrayHelp)->required();
  invocation.On(verb, [job](Context& c) { return Why(c, *job); });
}

}  // namespace gpupool::client

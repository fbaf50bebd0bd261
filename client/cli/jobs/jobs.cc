// gpupool jobs: the list.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/job_view.h"

namespace gpupool::client {
namespace {

struct JobsOptions {
  std::vector<std::string> states;
  std::string tenant;
  std::string name;
  int limit = 0;
  uint64_t array = 0;
  bool tasks = false;  // one line for each task
};

// Returns one answer with as many pages as are needed for `limit` jobs (0:
// all). `collapse` leaves out tasks of arrays.
absl::StatusOr<v1::ListJobsResponse> ListAll(Client& client,
                                             const JobsOptions& options,
                                             bool collapse) {
  v1::ListJobsRequest request;
  for (const std::string& state : options.states) {
    request.add_states(ParseState(state));
  }
  request.set_tenant(options.tenant);
  request.set_name(options.name);
  request.set_array_id(options.array);
  request.set_without_tasks(collapse);
  v1::ListJobsResponse all;
  while (true) {
    const int wanted = options.limit - all.jobs_size();
    request.set_page_size(options.limit > 0 ? std::min(wanted, 1000) : 1000);
    absl::StatusOr<v1::ListJobsResponse> page = client.ListJobs(request);
    if (!page.ok()) return page.status();
    all.mutable_jobs()->MergeFrom(page->jobs());
    all.set_next_page_token(page->next_page_token());
    const bool full = options.limit > 0 && all.jobs_size() >= options.limit;
    if (page->next_page_token().empty() || full) return all;
    request.set_page_token(page->next_page_token());
  }
}

// Returns whether a task of the array has one of these states.
bool HasState(const v1::JobArray& array,
              const std::vector<std::string>& states) {
  if (states.empty()) return true;
  return std::any_of(states.begin(), states.end(), [&](const auto& name) {
    return std::any_of(
        array.counts().begin(), array.counts().end(),
        [&](const auto& count) { return count.state() == ParseState(name); });
  });
}

absl::StatusOr<std::vector<v1::JobArray>> ListArrays(
    Client& client, const JobsOptions& options) {
  v1::ListArraysRequest request;
  request.set_tenant(options.tenant);
  request.set_name(options.name);
  request.set_page_size(1000);
  std::vector<v1::JobArray> all;
  while (true) {
    absl::StatusOr<v1::ListArraysResponse> page = client.ListArrays(request);
    if (!page.ok()) return page.status();
    for (v1::JobArray& array : *page->mutable_arrays()) {
      const bool full =
          options.limit > 0 && all.size() >= static_cast<size_t>(options.limit);
      if (full) return all;
      if (HasState(array, options.states)) all.push_back(std::move(array));
    }
    if (page->next_page_token().empty()) return all;
    request.set_page_token(page->next_page_token());
  }
}

// Returns the text for an empty list.
const char* EmptyText(const JobsOptions& options) {
  const bool filtered = !options.states.empty() || !options.tenant.empty() ||
                        !options.name.empty() || options.array > 0;
  return filtered ? "no job matches; `gpupool jobs` lists all of them"
                  : "no jobs; start one with `gpupool run FILE`";
}

int Jobs(Context& context, const JobsOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  if (options.array > 0) {
    v1::GetJobRequest request;
    request.set_id(options.array);
    const auto array = (*client)->GetArray(request);
    if (absl::IsNotFound(array.status())) {
      return context.Fail(
          absl::NotFoundError(absl::StrCat("there is no array ", options.array,
                                           "; see them with `gpupool jobs`")));
    }
    if (!array.ok()) return context.Fail(array.status());
  }
  // Programs get every job.
  const bool collapse = !options.tasks && options.array == 0 &&
                        context.options().output == OutputFormat::kTable;
  const auto jobs = ListAll(**client, options, collapse);
  if (!jobs.ok()) return context.Fail(jobs.status());
  std::vector<v1::JobArray> arrays;
  if (collapse) {
    auto listed = ListArrays(**client, options);
    if (!listed.ok()) return context.Fail(listed.status());
    arrays = *std::move(listed);
  }
  context.Print(*jobs, [&] {
    if (jobs->jobs().empty() && arrays.empty() && context.out().is_terminal) {
      context.Say(EmptyText(options));
      return;
    }
    PrintJobs(context.out(),
              {.jobs = *jobs, .arrays = arrays, .limit = options.limit},
              context.headers(), absl::Now());
  });
  return kOk;
}

}  // namespace

void AddJobs(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<JobsOptions>();
  CLI::App* verb = AddVerb(
      app, "jobs", "List jobs, the newest first. An array of jobs is one line.",
      "  gpupool jobs --state running,queued\n"
      "  gpupool jobs --array 7\n"
      "  gpupool jobs --name digits --limit 5 -o json");
  verb->add_option("--state", options->states,
                   "Only jobs in these states, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(StateNames(), CLI::ignore_case))
      ->type_name("STATE");
  verb->add_option("--tenant", options->tenant, "Only jobs of this tenant")
      ->type_name("NAME");
  verb->add_option("--name", options->name, "Only jobs of this name")
      ->type_name("NAME");
  verb->add_option("--limit", options->limit,
                   "Maximum number of jobs (default: all)")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  verb->add_option("--array", options->array, "Only the tasks of this array")
      ->check(CLI::PositiveNumber)
      ->type_name("ID");
  verb->add_flag("--tasks", options->tasks,
                 "Every task of every array, one line each");
  invocation.On(verb, [options](Context& c) { return Jobs(c, *options); });
}

}  // namespace gpupool::client

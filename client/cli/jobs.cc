// gpupool jobs: the list.
#include <CLI/CLI.hpp>
#include <memory>

#include "absl/time/clock.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/job_view.h"
#include "client/cli/verbs.h"

namespace gpupool::client {
namespace {

struct JobsOptions {
  std::vector<std::string> states;
  std::string tenant;
  std::string name;
  int limit = 0;
};

// The pages that it takes to reach `limit` jobs (0: all) as one answer.
absl::StatusOr<v1::ListJobsResponse> ListAll(Client& client,
                                             const JobsOptions& options) {
  v1::ListJobsRequest request;
  for (const std::string& state : options.states) {
    request.add_states(ParseState(state));
  }
  request.set_tenant(options.tenant);
  request.set_name(options.name);
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

int Jobs(Context& context, const JobsOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const auto jobs = ListAll(**client, options);
  if (!jobs.ok()) return context.Fail(jobs.status());
  context.Print(*jobs, [&] {
    if (jobs->jobs().empty() && context.out().is_terminal) {
      context.Say("no jobs; start one with `gpupool run FILE`");
      return;
    }
    PrintJobs(context.out(), context.headers(), *jobs, absl::Now());
  });
  return kOk;
}

}  // namespace

void AddJobs(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<JobsOptions>();
  CLI::App* verb = AddVerb(app, "jobs", "List jobs, the newest first.",
                           "  gpupool jobs --state running,queued\n"
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
  verb->add_option("--limit", options->limit, "At most so many (default: all)")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  invocation.On(verb, [options](Context& c) { return Jobs(c, *options); });
}

}  // namespace gpupool::client

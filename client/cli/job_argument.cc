#include "client/cli/job_argument.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gpupool::client {

absl::StatusOr<v1::Job> FindJob(Client& client, const std::string& text) {
  uint64_t id = 0;
  if (absl::SimpleAtoi(text, &id)) {
    v1::GetJobRequest request;
    request.set_id(id);
    return client.GetJob(request);
  }
  v1::ListJobsRequest request;
  request.set_name(text);
  request.set_page_size(1);
  const absl::StatusOr<v1::ListJobsResponse> jobs = client.ListJobs(request);
  if (!jobs.ok()) return jobs.status();
  if (jobs->jobs().empty()) {
    return absl::NotFoundError(absl::StrCat("no job is named '", text,
                                            "'; see them with `gpupool jobs`"));
  }
  return jobs->jobs(0);
}

}  // namespace gpupool::client

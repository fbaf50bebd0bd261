#include "client/cli/job_argument.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gpupool::client {
namespace {

absl::StatusOr<JobOrArray> FindById(Client& client, uint64_t id) {
  v1::GetJobRequest request;
  request.set_id(id);
  absl::StatusOr<v1::Job> job = client.GetJob(request);
  if (job.ok()) return JobOrArray(*std::move(job));
  if (!absl::IsNotFound(job.status())) return job.status();
  absl::StatusOr<v1::JobArray> array = client.GetArray(request);
  if (array.ok()) return JobOrArray(*std::move(array));
  return absl::IsNotFound(array.status()) ? job.status() : array.status();
}

// Parses "7_3".
bool IsTask(const std::string& text, uint64_t& array, uint32_t& index) {
  const std::vector<std::string> parts = absl::StrSplit(text, '_');
  return parts.size() == 2 && absl::SimpleAtoi(parts[0], &array) && array > 0 &&
         absl::SimpleAtoi(parts[1], &index);
}

absl::StatusOr<JobOrArray> FirstOf(Client& client,
                                   const v1::ListJobsRequest& request,
                                   const std::string& otherwise) {
  absl::StatusOr<v1::ListJobsResponse> jobs = client.ListJobs(request);
  if (!jobs.ok()) return jobs.status();
  if (jobs->jobs().empty()) return absl::NotFoundError(otherwise);
  return JobOrArray(std::move(*jobs->mutable_jobs(0)));
}

}  // namespace

absl::StatusOr<JobOrArray> FindJobOrArray(Client& client,
                                          const std::string& text) {
  // An empty name would fit every job.
  if (text.empty()) {
    return absl::InvalidArgumentError(
        "the job is empty: write its number, its name, or a task as in 7_3; "
        "see them with `gpupool jobs`");
  }
  uint64_t id = 0;
  uint32_t index = 0;
  if (absl::SimpleAtoi(text, &id)) return FindById(client, id);
  v1::ListJobsRequest request;
  request.set_page_size(1);
  if (IsTask(text, id, index)) {
    request.set_array_id(id);
    request.set_array_index(index);
    return FirstOf(
        client, request,
        absl::StrCat("there is no task ", text,
                     "; see them with `gpupool jobs --array ", id, "`"));
  }
  request.set_name(text);
  return FirstOf(client, request,
                 absl::StrCat("no job is named '", text,
                              "'; see them with `gpupool jobs`"));
}

absl::StatusOr<v1::Job> FindJob(Client& client, const std::string& text) {
  absl::StatusOr<JobOrArray> found = FindJobOrArray(client, text);
  if (!found.ok()) return found.status();
  if (auto* job = std::get_if<v1::Job>(&*found)) return std::move(*job);
  const uint64_t id = std::get<v1::JobArray>(*found).id();
  return absl::InvalidArgumentError(
      absl::StrCat(id, " is an array of jobs; name one of its tasks, as in ",
                   id, "_0; see them with `gpupool jobs --array ", id, "`"));
}

}  // namespace gpupool::client

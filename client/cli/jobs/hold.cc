// gpupool hold, release, requeue: when a job may run.
#include <CLI/App.hpp>
#include <memory>
#include <ostream>

#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/job_argument.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/array_view.h"
#include "client/cli/output/job_view.h"

namespace gpupool::client {
namespace {

template <typename Request>
using Call = absl::StatusOr<v1::Job> (Client::*)(const Request&);

template <typename Request>
using ArrayCall = absl::StatusOr<v1::JobArray> (Client::*)(const Request&);

template <typename Request>
int AskArray(Context& context, uint64_t id, ArrayCall<Request> call) {
  Request request;
  request.set_id(id);
  const absl::StatusOr<v1::JobArray> array =
      ((*context.client())->*call)(request);
  if (!array.ok()) return context.Fail(array.status());
  context.Print(*array, [&] {
    *context.out().stream << "array " << id << " (" << array->spec().name()
                          << "): " << CountsText(*array) << "\n";
  });
  return kOk;
}

// A verb for one job or array: its texts and its two calls.
template <typename Request>
struct Verb {
  const char* name;
  const char* help;
  const char* example;
  Call<Request> call;
  ArrayCall<Request> array_call;
};

template <typename Request>
int Ask(Context& context, const std::string& text, const Verb<Request>& verb) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<JobOrArray> found = FindJobOrArray(**client, text);
  if (!found.ok()) return context.Fail(found.status());
  if (const auto* array = std::get_if<v1::JobArray>(&*found)) {
    return AskArray(context, array->id(), verb.array_call);
  }
  Request request;
  request.set_id(std::get<v1::Job>(*found).id());
  const absl::StatusOr<v1::Job> job = ((*client)->*verb.call)(request);
  if (!job.ok()) return context.Fail(job.status());
  context.Print(*job, [&] {
    *context.out().stream << "job " << job->id() << " (" << job->spec().name()
                          << ") is " << StateText(job->state())
                          << (job->held() ? ", held" : "") << "\n";
  });
  return kOk;
}

template <typename Request>
void Add(CLI::App& app, Invocation& invocation, const Verb<Request>& verb) {
  auto job = std::make_shared<std::string>();
  CLI::App* added = AddVerb(app, verb.name, verb.help, verb.example);
  added->add_option("JOB", *job, kJobOrArrayHelp)->required();
  invocation.On(added, [job, verb](Context& c) { return Ask(c, *job, verb); });
}

}  // namespace

void AddHold(CLI::App& app, Invocation& invocation) {
  Add<v1::HoldJobRequest>(
      app, invocation,
      {"hold",
       "Keep a job from starting until it is released. A running job "
       "checkpoints after its step and frees its devices.",
       "  gpupool hold 7", &Client::HoldJob, &Client::HoldArray});
}

void AddRelease(CLI::App& app, Invocation& invocation) {
  Add<v1::ReleaseJobRequest>(
      app, invocation,
      {"release", "Let a held job start.", "  gpupool release 7",
       &Client::ReleaseJob, &Client::ReleaseArray});
}

void AddRequeue(CLI::App& app, Invocation& invocation) {
  Add<v1::RequeueJobRequest>(
      app, invocation,
      {"requeue",
       "Queue a job again with its full number of attempts. A running job "
       "checkpoints after its step and resumes from there. A job that backs "
       "off stops waiting.",
       "  gpupool requeue 7", &Client::RequeueJob, &Client::RequeueArray});
}

}  // namespace gpupool::client

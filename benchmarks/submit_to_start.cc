// How long does a submitted job wait for its first step on an idle device?
//
//   submit_to_start --address HOST:PORT --job FILE [--rounds N]
//
// FILE holds a JobSpec as protobuf text. Each round submits it under a
// different name and watches it. The figure is the time from the call of
// SubmitJob until the event of the first step with its loss has arrived. Then
// the round waits for the job's end. The first round is reported separately,
// because its plan is not known yet. Prints one JSON object.
#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "gpupool/v1/job.grpc.pb.h"
#include "nlohmann/json.hpp"

namespace {

namespace v1 = gpupool::v1;
using Clock = std::chrono::steady_clock;

[[noreturn]] void Fail(const std::string& what) {
  std::cerr << "submit_to_start: " << what << "\n";
  std::exit(1);
}

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

struct Times {
  double acknowledged = 0;
  double starting = 0;  // when the event of the state has arrived
  double running = 0;
  double stepped = 0;
};

Times Round(v1::JobService::Stub& stub, const v1::JobSpec& spec, int number) {
  v1::SubmitJobRequest request;
  request.set_request_id(std::to_string(getpid()) + "-" +
                         std::to_string(number));
  *request.mutable_spec() = spec;
  request.mutable_spec()->set_name("round-" + std::to_string(number));
  Times times;
  v1::Job job;
  const Clock::time_point start = Clock::now();
  {
    grpc::ClientContext context;
    const grpc::Status status = stub.SubmitJob(&context, request, &job);
    if (!status.ok()) Fail(status.error_message());
    times.acknowledged = MillisecondsSince(start);
  }
  grpc::ClientContext context;
  v1::WatchJobRequest watch;
  watch.set_id(job.id());
  const auto reader = stub.WatchJob(&context, watch);
  v1::JobEvent event;
  while (reader->Read(&event)) {
    const double now = MillisecondsSince(start);
    if (event.has_progress() && times.stepped == 0) times.stepped = now;
    if (!event.has_state_change()) continue;
    const v1::StateChange& change = event.state_change();
    if (change.to() == v1::STARTING) times.starting = now;
    if (change.to() == v1::RUNNING) times.running = now;
    if (change.to() == v1::FAILED) Fail(change.reason());
  }
  reader->Finish();
  if (times.stepped == 0) Fail("the job ended without a step");
  return times;
}

double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share *
                                    static_cast<double>(values.size() - 1))];
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("milliseconds from submission to first step");
  std::string address;
  std::string file;
  int rounds = 50;
  app.add_option("--address", address)->required();
  app.add_option("--job", file)->required();
  app.add_option("--rounds", rounds)->check(CLI::Range(2, 10000));
  CLI11_PARSE(app, argc, argv);
  std::ifstream stream(file);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  v1::JobSpec spec;
  if (!google::protobuf::TextFormat::ParseFromString(text, &spec)) {
    Fail(file + " is no JobSpec");
  }
  const auto stub = v1::JobService::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  std::vector<double> acknowledged;
  std::vector<double> starting;
  std::vector<double> running;
  std::vector<double> stepped;
  const Times first = Round(*stub, spec, 0);
  for (int i = 1; i < rounds; ++i) {
    const Times times = Round(*stub, spec, i);
    acknowledged.push_back(times.acknowledged);
    starting.push_back(times.starting);
    running.push_back(times.running);
    stepped.push_back(times.stepped);
  }
  const nlohmann::json result = {
      {"first_ms", first.stepped},
      {"acknowledged_p50_ms", Quantile(acknowledged, 0.5)},
      {"starting_p50_ms", Quantile(starting, 0.5)},
      {"running_p50_ms", Quantile(running, 0.5)},
      {"p50_ms", Quantile(stepped, 0.5)},
      {"p90_ms", Quantile(stepped, 0.9)},
      {"p99_ms", Quantile(stepped, 0.99)}};
  std::cout << result.dump() << "\n";
  return 0;
}

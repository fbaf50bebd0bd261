// The inference service behind a real gRPC server in the test's process, with a
// model "digits" on a fake worker. Its input is FP32 [-1,2], and its output is
// twice the input.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "server/api/inference/inference_service.h"
#include "server/api/rpc/method_guard.h"
#include "server/auth/access_gate.h"
#include "server/serving/decoupled/decoupled_executor.h"
#include "tests/server/serving/fake_worker.h"
#include "tests/server/serving/served_model.h"

namespace gpupool::server {

class FakeRepository : public ModelRepository {
 public:
  absl::StatusOr<std::vector<v1::ModelVersion>> Versions() override {
    return versions;
  }
  void Load(const std::string& model, Done done) override {
    loaded.push_back(model);
    done(answer);
  }
  void Unload(const std::string& model, UnloadScope scope, Done done) override {
    unloaded.push_back(model);
    unload_scope = scope;
    done(answer);
  }

  std::vector<v1::ModelVersion> versions;
  std::vector<std::string> loaded, unloaded;
  UnloadScope unload_scope = UnloadScope::kModel;  // of the last call
  absl::Status answer;
};

class FakeLog : public LogControl {
 public:
  LogLevel Level() const override { return level; }
  void SetLevel(LogLevel to) override { level = to; }
  std::string Format() const override { return "ISO8601"; }

  std::atomic<LogLevel> level = LogLevel::kInfo;
};

class InferenceServer {
 public:
  using Stub = inference::GRPCInferenceService::Stub;

  explicit InferenceServer(uint64_t max_bytes_in_flight = 1 << 20,
                           Tracer* tracer = nullptr,
                           std::shared_ptr<SharedRegions> regions = nullptr) {
    v1::ModelVersion version = MakeModelVersion("digits", 1, 10);
    version.mutable_serving()->set_max_batch_size(4);
    repository.versions.push_back(version);
    serving.VersionReady(version, "cpu:0");
    serving.Start();
    InferenceServiceOptions options;
    options.serving = &serving;
    options.repository = &repository;
    options.log = &log;
    options.server_version = "1.2.3";
    options.max_bytes_in_flight = max_bytes_in_flight;
    options.tracer = tracer;
    options.regions = std::move(regions);
    options.ready = [this] { return ready.load(); };
    service_ = std::make_unique<InferenceService>(options);
    grpc::ServerBuilder builder;

    builder.AddListeningPort("127.0.0.1:0", GuardedPlainCredentials(guard),
                             &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub = inference::GRPCInferenceService::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                            grpc::InsecureChannelCredentials()));
  }
  ~InferenceServer() {
    serving.Stop();
    worker.Resume();
    server_->Shutdown();
    server_->Wait();
  }

  std::atomic<bool> ready{true};
  FakeWorker worker;
  FakeRepository repository;
  FakeLog log;
  ResponseCache cache{{.limit_bytes = 1 << 20}};  // on by Serving::SetCaching
  Serving serving{{
      .ring = [this](const std::string&) { return worker.ring(); },
      .catalogue = [this](absl::string_view name) -> absl::StatusOr<v1::Model> {
        v1::Model model;
        model.set_name(std::string(name));
        for (const auto& version : repository.versions) {
          if (version.model() == name) *model.add_versions() = version;
        }
        if (model.versions().empty()) return absl::NotFoundError("unknown");
        return model;
      },
      .decouple = DecoupleLoop,
      .cache = &cache,
  }};
  std::unique_ptr<Stub> stub;
  int port = 0;
  AccessGate open_gate{FreeCallers::kAll, absl::Now};
  // Notes no user before it is told one.
  const std::shared_ptr<MethodGuard> guard =
      std::make_shared<MethodGuard>(&open_gate);

 private:
  std::unique_ptr<InferenceService> service_;
  std::unique_ptr<grpc::Server> server_;
};

// Returns a request to "digits" with raw contents, two values per row.
inline inference::ModelInferRequest RawRequest(std::vector<float> values) {
  inference::ModelInferRequest request;
  request.set_model_name("digits");
  auto* input = request.add_inputs();
  input->set_name("input");
  input->set_datatype("FP32");
  input->add_shape(static_cast<int64_t>(values.size() / 2));
  input->add_shape(2);
  request.add_raw_input_contents(values.data(), values.size() * sizeof(float));
  return request;
}

// Returns a decoupled version "loop". Its input is FP32 [2], and the two
// numbers of the output are rows of a Loop.
inline v1::ModelVersion LoopVersion() {
  v1::ModelVersion version = MakeModelVersion("loop", 1, 11);
  for (auto* tensor : {version.mutable_plan()->mutable_inputs(0),
                       version.mutable_plan()->mutable_outputs(0)}) {
    tensor->clear_shape();
    tensor->add_shape(2);
  }
  version.mutable_plan()->mutable_outputs(0)->set_loop("walk");
  version.mutable_serving()->set_decoupled(true);
  return version;
}

// Returns the request to "loop".
inline inference::ModelInferRequest LoopRequest(std::vector<float> values) {
  inference::ModelInferRequest request = RawRequest(std::move(values));
  request.set_model_name("loop");
  request.mutable_inputs(0)->clear_shape();
  request.mutable_inputs(0)->add_shape(2);
  return request;
}

// Returns an ensemble "twice" that asks "digits" two times, one after the
// other. Its input is "x", its output "y".
inline EnsembleSpec TwiceSpec() {
  const EnsembleTensor x{.name = "x", .data_type = v1::FLOAT32, .dims = {2}};
  EnsembleTensor y = x;
  y.name = "y";
  const EnsembleStep first{.model = "digits",
                           .version = 0,
                           .inputs = {{"input", "x"}},
                           .outputs = {{"output", "m"}}};
  EnsembleStep second = first;
  second.inputs["input"] = "m";
  second.outputs["output"] = "y";
  return {.model = "twice",
          .version = 1,
          .max_batch_size = 4,
          .max_in_flight = 8,
          .inputs = {x},
          .outputs = {y},
          .steps = {first, second}};
}

// Returns the request to "twice".
inline inference::ModelInferRequest TwiceRequest(std::vector<float> values) {
  inference::ModelInferRequest request = RawRequest(std::move(values));
  request.set_model_name("twice");
  request.mutable_inputs(0)->set_name("x");
  return request;
}

inline std::vector<float> RawOutput(
    const inference::ModelInferResponse& response) {
  const std::string& raw = response.raw_output_contents(0);
  std::vector<float> values(raw.size() / sizeof(float));
  std::memcpy(values.data(), raw.data(), raw.size());
  return values;
}

}  // namespace gpupool::server

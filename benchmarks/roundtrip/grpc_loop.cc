#include "benchmarks/roundtrip/grpc_loop.h"

#include <thread>

#include "benchmarks/roundtrip/fail.h"

namespace gpupool::benchmarks {

std::unique_ptr<Stub> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // Channels with equal arguments share connections otherwise.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return inference::GRPCInferenceService::NewStub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
}

Figures GrpcLoop::Run(std::chrono::duration<double> seconds) {
  const Clock::time_point start = Clock::now();
  active_ = static_cast<int>(callers_.size());
  for (Caller& caller : callers_) Send(caller);
  std::this_thread::sleep_for(seconds);
  stop_ = true;
  while (active_ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::vector<double> all;
  for (const Caller& caller : callers_) {
    all.insert(all.end(), caller.latencies_us.begin(),
               caller.latencies_us.end());
  }
  return Summarise(std::move(all), Clock::now() - start);
}

void GrpcLoop::Send(Caller& caller) {
  caller.context = std::make_unique<grpc::ClientContext>();
  caller.response.Clear();
  caller.sent = Clock::now();
  stub_->async()->ModelInfer(
      caller.context.get(), &request_, &caller.response,
      [this, &caller](const grpc::Status& status) { Receive(caller, status); });
}

void GrpcLoop::Receive(Caller& caller, const grpc::Status& status) {
  if (!status.ok()) Fail("ModelInfer: " + status.error_message());
  caller.latencies_us.push_back(
      std::chrono::duration<double, std::micro>(Clock::now() - caller.sent)
          .count());
  if (stop_) {
    --active_;
  } else {
    Send(caller);
  }
}

struct IdleStreams::Stream {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<inference::ModelInferRequest,
                                           inference::ModelStreamInferResponse>>
      calls;
};

IdleStreams::IdleStreams(const std::string& address, int streams) {
  constexpr int kOnEach = 100;
  for (int i = 0; i < streams; ++i) {
    if (i % kOnEach == 0) stubs_.push_back(Connect(address));
    auto stream = std::make_unique<Stream>();
    stream->calls = stubs_.back()->ModelStreamInfer(&stream->context);
    streams_.push_back(std::move(stream));
  }
}

IdleStreams::~IdleStreams() {
  for (const auto& stream : streams_) {
    stream->calls->WritesDone();
    stream->calls->Finish();
  }
}

}  // namespace gpupool::benchmarks

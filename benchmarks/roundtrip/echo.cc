#include "benchmarks/roundtrip/echo.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>

#include "benchmarks/roundtrip/fail.h"
#include "inference/grpc_service.grpc.pb.h"

namespace gpupool::benchmarks {
namespace {

using inference::GRPCInferenceService;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

class EchoService : public GRPCInferenceService::CallbackService {
 public:
  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* context,
                                       const ModelInferRequest* request,
                                       ModelInferResponse* response) override {
    response->set_model_name(request->model_name());
    response->set_model_version("1");
    auto* output = response->add_outputs();
    output->set_name("output");
    output->set_datatype("FP32");
    output->add_shape(1);
    // The request's id is the number of bytes to send back.
    response->add_raw_output_contents(
        std::string(std::atoi(request->id().c_str()), 'x'));
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace

int RunEchoServer() {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  EchoService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  std::cout << port << std::endl;
  server->Wait();
  return 0;
}

EchoProcess::EchoProcess() {
  int pipe_fds[2];
  if (pipe(pipe_fds) != 0) Fail("pipe failed");
  pid_ = fork();
  if (pid_ == 0) {
    dup2(pipe_fds[1], STDOUT_FILENO);
    execl("/proc/self/exe", "infer_roundtrip", "--echo-server", nullptr);
    _exit(127);
  }
  close(pipe_fds[1]);
  char text[16] = {};
  if (read(pipe_fds[0], text, sizeof(text) - 1) <= 0) {
    Fail("the echo server did not start");
  }
  close(pipe_fds[0]);
  address_ = "127.0.0.1:" + std::to_string(std::atoi(text));
}

EchoProcess::~EchoProcess() {
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

}  // namespace gpupool::benchmarks

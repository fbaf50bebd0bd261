// gpupool devices drain and resume.
#include <CLI/App.hpp>
#include <memory>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"

namespace gpupool::client {
namespace {

struct DrainOptions {
  std::string device;
  std::string reason;
  bool let_finish = false;
};

// Returns "; jobs 3, 7 checkpoint and leave; models a/1 stay until they are
// unloaded".
std::string LeftText(const v1::Device& device) {
  std::string text;
  if (device.job_ids_size() > 0) {
    absl::StrAppend(&text, device.job_ids_size() == 1 ? "; job " : "; jobs ",
                    absl::StrJoin(device.job_ids(), ", "));
    const bool one = device.job_ids_size() == 1;
    absl::StrAppend(
        &text,
        device.drain().lets_finish()
            ? (one ? " runs to its end" : " run to their end")
            : (one ? " checkpoints and leaves" : " checkpoint and leave"));
  }
  if (device.versions_size() > 0) {
    absl::StrAppend(
        &text, "; still served there: ", absl::StrJoin(device.versions(), ", "),
        " (see `gpupool models unload`)");
  }
  return text;
}

int Drain(Context& context, const DrainOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::DrainDeviceRequest request;
  request.set_device(options.device);
  request.mutable_drain()->set_reason(options.reason);
  request.mutable_drain()->set_lets_finish(options.let_finish);
  const auto device = (*client)->DrainDevice(request);
  if (!device.ok()) return context.Fail(device.status());
  context.Print(*device, [&] {
    *context.out().stream << device->name() << " is drained"
                          << LeftText(*device) << "\n";
  });
  return kOk;
}

int Resume(Context& context, const std::string& name) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::ResumeDeviceRequest request;
  request.set_device(name);
  const auto device = (*client)->ResumeDevice(request);
  if (!device.ok()) return context.Fail(device.status());
  context.Print(*device, [&] {
    *context.out().stream << device->name()
                          << " accepts jobs and models again\n";
  });
  return kOk;
}

}  // namespace

void AddDevicesDrain(CLI::App& devices, Invocation& invocation) {
  auto options = std::make_shared<DrainOptions>();
  CLI::App* drain = AddVerb(
      devices, "drain",
      "Place nothing new on a device until it is resumed. Jobs that run there "
      "checkpoint and resume elsewhere; models stay until they are unloaded.",
      "  gpupool devices drain cpu:0 --reason \"new fan\"");
  drain->add_option("DEVICE", options->device, "The device, as in cpu:0")
      ->required()
      ->type_name("NAME");
  drain
      ->add_option("--reason", options->reason,
                   "Reason, shown to users whose jobs wait for the device")
      ->type_name("TEXT");
  drain->add_flag("--let-finish", options->let_finish,
                  "Let the jobs that run there finish");
  invocation.On(drain, [options](Context& c) { return Drain(c, *options); });

  auto name = std::make_shared<std::string>();
  CLI::App* resume = AddVerb(devices, "resume",
                             "Place jobs and models on a drained device again. "
                             "Also ends a cool-down after faults.",
                             "  gpupool devices resume cpu:0");
  resume->add_option("DEVICE", *name, "The device, as in cpu:0")
      ->required()
      ->type_name("NAME");
  invocation.On(resume, [name](Context& c) { return Resume(c, *name); });
}

}  // namespace gpupool::client

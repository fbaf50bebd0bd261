// gpupool devices topology: how devices are connected.
#include <CLI/App.hpp>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/table.h"

namespace gpupool::client {
namespace {

std::string LinkTo(const v1::Device& device, const std::string& other) {
  if (device.name() == other) return "X";
  for (const v1::DeviceLink& link : device.links()) {
    if (link.device() == other) return link.link();
  }
  return "";
}

void PrintMatrix(const Context& context,
                 const v1::ListDevicesResponse& devices) {
  std::vector<Table::Column> columns = {{"DEVICE"}};
  for (const v1::Device& device : devices.devices()) {
    columns.push_back({device.name()});
  }
  Table table(std::move(columns));
  bool known = false;
  for (const v1::Device& device : devices.devices()) {
    std::vector<std::string> row = {device.name()};
    for (const v1::Device& other : devices.devices()) {
      row.push_back(LinkTo(device, other.name()));
    }
    known = known || device.links_size() > 0;
    table.AddRow(std::move(row));
  }
  table.Print(context.out(), context.headers());
  if (!context.out().is_terminal) return;
  *context.out().stream
      << (known ? "NVL NVLink, PIX one PCIe switch, PXB several, PHB a host "
                  "bridge, NODE one NUMA node, SYS two\n"
                : "The connections are unknown: the devices are not GPUs, "
                  "there is only one GPU, or the driver's management library "
                  "is missing.\n");
}

int ShowTopology(Context& context) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const auto devices = (*client)->ListDevices({});
  if (!devices.ok()) return context.Fail(devices.status());
  context.Print(*devices, [&] { PrintMatrix(context, *devices); });
  return kOk;
}

}  // namespace

void AddDevicesTopology(CLI::App& devices, Invocation& invocation) {
  CLI::App* topology =
      AddVerb(devices, "topology",
              "Show how the devices are connected, like `nvidia-smi topo -m`. "
              "Jobs on several devices get those with the fastest links.",
              "  gpupool devices topology");
  invocation.On(topology, [](Context& c) { return ShowTopology(c); });
}

}  // namespace gpupool::client

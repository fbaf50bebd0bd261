// gpupool: the command line client.
#include <string>
#include <vector>

#include "client/cli/app.h"
#include "client/cli/command/interrupt.h"

int main(int argc, char** argv) {
  using gpupool::client::Console;
  gpupool::client::Interrupt interrupt;
  return gpupool::client::RunCommandLine(
      std::vector<std::string>(argv + 1, argv + argc), Console::Standard(),
      interrupt.stop());
}

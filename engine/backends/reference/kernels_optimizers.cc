// Optimizers beyond SGD and Adam.
#include "engine/backends/reference/kernels.h"

namespace gpupool::engine::reference {

void RmspropStep(const Operands&) {}
void AdagradStep(const Operands&) {}
void LionStep(const Operands&) {}
void EmaUpdate(const Operands&) {}

}  // namespace gpupool::engine::reference

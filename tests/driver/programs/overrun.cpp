// A program of the driver API alone, with a launch of one thread too many. It declares what it uses of cuda.h.
#include <cstddef>
#include <cstdio>

extern "C" {
int cuInit(unsigned);
int cuDeviceGet(int*, int);
int cuCtxCreate_v2(void**, unsigned, int);
int cuCtxDestroy_v2(void*);
int cuCtxSynchronize();
int cuModuleLoadData(void**, const void*);
int cuModuleGetFunction(void**, void*, const char*);
int cuMemAlloc_v2(void**, size_t);
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                   void**);
}

static const char kSet[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry set(.param .u64 p)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd2, %rd1, %rd2;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

int main() {
  void *context, *module, *kernel, *numbers;
  int device;
  if (cuInit(0) || cuDeviceGet(&device, 0) || cuCtxCreate_v2(&context, 0, device)) return 2;
  if (cuModuleLoadData(&module, kSet) || cuModuleGetFunction(&kernel, module, "set")) return 3;
  if (cuMemAlloc_v2(&numbers, 32 * sizeof(unsigned))) return 4;
  void* parameters[] = {&numbers};
  if (cuLaunchKernel(kernel, 1, 1, 1, 33, 1, 1, 0, nullptr, parameters, nullptr)) return 5;
  std::printf("synchronised: %d\n", cuCtxSynchronize());
  return 0;
}

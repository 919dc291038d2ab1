// ldmatrix wants rows that begin at multiples of 16 bytes.
// wrong: misaligned
// right:
__global__ void rows(unsigned* y, int pitch) {
  __shared__ alignas(16) unsigned short s[8 * 16];
  for (int i = threadIdx.x; i < 128; i += 32) s[i] = i;
  __syncwarp();
  unsigned v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"((unsigned)__cvta_generic_to_shared(s + threadIdx.x % 8 * pitch)) : "memory");
  y[threadIdx.x] = v;
}
void run(bool wrong) {
  int* y = device_array(32);
  rows<<<1, 32>>>(reinterpret_cast<unsigned*>(y), wrong ? 12 : 16);
  finish(y);
}

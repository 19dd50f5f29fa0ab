# The runner: torch with CUDA, a C++ compiler for Inductor, no Streamlit.
# The base brings the container toolkit's environment; torch's wheels bring the CUDA libraries.
FROM nvidia/cuda:12.8.1-base-ubuntu24.04

ARG TORCH=torch==2.13.0
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        g++ python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home hud \
    && install --directory --owner=hud --group=hud /data /etc/hud
WORKDIR /opt/compile-hud
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1

# Packages first: they change less often than the code. Only TORCH pins torch.
COPY pyproject.toml constraints.txt README.md LICENSE ./
RUN python3 -m venv /opt/venv \
    && grep -v '^torch==' constraints.txt > /opt/venv/constraints.txt \
    && mkdir app db models_zoo runner \
    && pip install --no-cache-dir -c /opt/venv/constraints.txt ${TORCH} \
    && pip install --no-cache-dir -c /opt/venv/constraints.txt -e ".[runner,zoo,gpu,postgres]"
COPY src ./src
COPY db ./db
COPY models_zoo ./models_zoo
COPY runner ./runner
RUN pip install --no-cache-dir --no-deps -e .

COPY docker/hud.toml /etc/hud/hud.toml
ENV HUD_CONFIG=/etc/hud/hud.toml HUD_STATE_DIR=/data
USER hud
VOLUME /data
CMD ["hud", "schedule"]

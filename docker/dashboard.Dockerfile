# The dashboard: no torch, no compiler.
FROM python:3.12.11-slim-bookworm

RUN useradd --system --uid 10001 --create-home hud \
    && install --directory --owner=hud --group=hud /data /etc/hud
WORKDIR /opt/compile-hud
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1

# Packages first: they change less often than the code.
COPY pyproject.toml constraints.txt README.md LICENSE ./
RUN python -m venv /opt/venv \
    && mkdir app db models_zoo runner \
    && pip install --no-cache-dir -c constraints.txt -e ".[app,runner,postgres]"
COPY src ./src
COPY db ./db
COPY models_zoo ./models_zoo
COPY runner ./runner
COPY app ./app
RUN pip install --no-cache-dir --no-deps -e .

COPY docker/hud.toml /etc/hud/hud.toml
ENV HUD_CONFIG=/etc/hud/hud.toml HUD_STATE_DIR=/data
USER hud
VOLUME /data
EXPOSE 8501
CMD ["hud", "serve"]
